"""specplan measure device | curve | acceptance | decode"""

from .app import new_app

app = new_app(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Measurements on the device at hand, in place of estimates."""
