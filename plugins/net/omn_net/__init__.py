"""The net family: what interfaces moved and lost, what protocols counted, what sockets and queues hold."""
