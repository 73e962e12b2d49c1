"""The claims of rules, checked on instances. In: rules. Out: results (`verify`), `refute`."""
