"""Pictures, drawn with matplotlib: one file a figure, `sheets.py` says which a verb shows, `sheet.py` writes them."""
