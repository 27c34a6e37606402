"""What a plugin's author tests with: countable programs, fixtures, a driver for one collector, the conformance kit.

Published like `omn_core.api`: names here change with the contract version. Nothing in it is imported by a run.
"""
