"""The rows of the comparison, one module per kind of load. A row does not choose the contenders."""
