"""The only package that imports pyspark: the gang of tasks, its supervisor, DataFrames in and out."""
