"""Generated from `proto/penstock/v1` by `make proto`: messages and stubs of the gRPC services. Never edited by hand."""
