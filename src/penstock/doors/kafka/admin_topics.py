"""tmp"""

from penstock.wire.kafka import messages


class TopicHandlers:
    def __init__(self, b):
        self.b = b

    async def init_producer_id(self, c, r):
        return messages.InitProducerIdResponse(
            error_code=0, producer_id=await self.b.new_producer_id(), producer_epoch=0
        )

    def create_topics(self, c, r): ...
    def delete_topics(self, c, r): ...
    def create_partitions(self, c, r): ...
    def delete_records(self, c, r): ...
