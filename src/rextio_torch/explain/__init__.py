"""Why a function with tensor annotations is native or not, line by line.

Whether a function is native is what Rextio's own analysis says. The reasons come from the operator
table, from the table of forms in `forms/`, and, where neither knows one, from Rextio's words.
"""
