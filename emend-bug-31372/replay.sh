#!/bin/sh
# Emend 0.1.0 ended with an internal error, which facts.json tells; this runs it again.
cd "$(dirname "$0")" && exec "${EMEND:-/tmp/wt/soak/build/emend}" 'optimize' 'model.onnx' 'better.onnx' '-O3' '-q' '--threads' '3'
