"""One object store: a local folder or S3 by URL, its keys and its commit protocol."""
