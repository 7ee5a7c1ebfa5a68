"""Rule packs: one folder per published method, one file per rule. See README.md, "Add a rule"."""
