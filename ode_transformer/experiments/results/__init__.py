"""Results of several records: tables, tests of significance, the report, and pictures."""
