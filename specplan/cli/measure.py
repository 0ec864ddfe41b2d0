"""specplan measure device | curve | acceptance | decode"""

from .app import Command, new_app
from .measure_acceptance import acceptance
from .measure_curve import curve
from .measure_decode import decode
from .measure_device import device

app = new_app(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Measurements on the device at hand, in place of estimates."""


app.command(cls=Command)(device)
app.command(cls=Command)(curve)
app.command(cls=Command)(acceptance)
app.command(cls=Command)(decode)
