"""The package as installed: version and import."""

import memsel


def test_version_is_a_release_number():
    assert memsel.__version__.split(".")[0].isdigit()
