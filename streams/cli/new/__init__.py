"""`streams new`: the files of a new application. Those below `project` are themselves an application that runs, with
the name `my-application`.
"""
