"""What users write: definitions, templates and handlers. Pure; knows nothing of jobs."""
