"""The object store, a local folder or S3: its keys, its commits, and the lease of the one writer."""
