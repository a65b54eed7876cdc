-- What explain_job advises after an undo. No process calls it, and people know it by the name of explain_job: it is
-- replaced, and has no successor.
{{function calls_for}}
