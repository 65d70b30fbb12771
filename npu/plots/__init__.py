"""Pictures of results, drawn by Vega-Altair: `charts` makes them, `write` puts them into files.

A chart is made from plain rows; nothing is computed here that a report does not have. Needs the extra `report`.
"""
