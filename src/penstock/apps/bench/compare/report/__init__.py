"""The result of a comparison as JSON, tables, a Markdown page and charts. Measures nothing."""
