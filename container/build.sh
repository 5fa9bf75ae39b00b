#!/bin/sh
# The build steps of the image, as a plain script: sh container/build.sh TARGET
# TARGET becomes a virtual environment with the package and its pins. Run from the project's folder.
#   EXTRAS   extras of the package                    (fleet,cluster,video)
#   TORCH    pip's arguments for torch, for example   "torch==2.13.0 --index-url <your index>"
#   PIP_ARGS further arguments of the package's installation, for example --no-deps
set -eu
target=$1
python=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1

"$python" -m venv "$target"
if [ -n "${TORCH=torch==2.13.0}" ]; then
  # shellcheck disable=SC2086 # several arguments
  "$target/bin/pip" install -q -c requirements.lock $TORCH
fi
# shellcheck disable=SC2086
"$target/bin/pip" install -q -c requirements.lock ${PIP_ARGS:-} ".[${EXTRAS-fleet,cluster,video}]"
cp requirements.lock "$target/requirements.lock"
"$target/bin/pip" list --format=freeze >"$target/packages.txt" # what is in the image, for its bill of materials
