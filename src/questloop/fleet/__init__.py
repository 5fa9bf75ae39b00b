"""A queue of training jobs for GPU machines reached by SSH: no job is lost, and none runs twice."""
