"""A check's report in the forms that people and machines read: one module a form, each a pure function from report to text.

`render` is the table of forms that the command line offers.
"""
