"""What records say together: tables, tests of significance, the report, and pictures."""
