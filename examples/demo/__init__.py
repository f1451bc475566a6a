"""The demo, one act per module. Each act starts what it needs on free ports and cleans up after itself."""
