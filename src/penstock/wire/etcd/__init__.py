"""Codec of etcd's v3 API in the JSON form of its HTTP gateway. No I/O."""
