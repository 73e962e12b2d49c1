"""Why a rule does not apply: `rewrite explain`."""
