"""tmp"""


class ConfigHandlers:
    def __init__(self, b):
        pass

    def describe_configs(self, c, r): ...
    def alter_configs(self, c, r): ...
    def incremental_alter_configs(self, c, r): ...
