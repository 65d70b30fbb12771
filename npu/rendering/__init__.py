"""Results in the forms that people and machines read: pure functions from reports and results to text.

A check's report has one module a form, and `forms.FORMS` is the table of those that the command line offers; `run`, `explain`
and `tools` lay out the results of those commands, and `console` prints what the others have to say.
"""
