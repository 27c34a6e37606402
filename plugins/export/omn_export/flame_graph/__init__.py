"""The page of a flame graph: its markup, its style and its script, put together by the html format."""
