"""What every test of the tree shares: the fixtures that omn publishes for plugin authors."""

pytest_plugins = ["omn_core.testing.fixtures"]
