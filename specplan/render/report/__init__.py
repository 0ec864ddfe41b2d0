"""The report: one HTML file that needs nothing else, with what its sliders show computed beforehand.

data.py     numbers, compact
charts.py   the charts as Vega-Lite
page.py     the file: page.html filled with page.css, page.js, the charts and the library that draws them
"""
