"""A client of etcd's v3 API over its HTTP gateway. Imported only if the cluster's metadata is stored in etcd."""
