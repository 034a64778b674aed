# The front door. `make help` lists what there is; CMakePresets.json and tools/ do the work.
.DEFAULT_GOAL := build
.PHONY: build demo test soak soak-pairs exports certify bench bench-extract bench-kernels bench-quantized bench-memory bench-mutate bench-egraph bench-search bench-target bench-tensat bench-pet bench-regret bench-slower fit install asan format check-format clean help

PREFIX ?= /usr/local
# Where results of compilers and of measuring are kept between runs, outside git.
export EMEND_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/emend
export CCACHE_DIR ?= $(EMEND_CACHE_DIR)/ccache
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1

DEMO := build/demo

build:  ## build the command build/emend (the default)
	@tools/setup.sh build
	@cmake --preset dev > /dev/null
	@cmake --build build --target emend_cli

demo: build  ## install what is missing, build, optimize an example model and show what changed
	@mkdir -p $(DEMO)
	build/emend zoo squeezenet $(DEMO)/squeezenet.onnx
	build/emend optimize $(DEMO)/squeezenet.onnx $(DEMO)/squeezenet.better.onnx

test:  ## install what is missing, build and run every test and check
	@tools/setup.sh test
	@python3 tools/test.py $(ONLY)

soak: build  ## random models through every verb, for as long as one likes (ARGS="--seconds 7200 --jobs 2"; ARGS=--help)
	@tools/setup.sh test
	@EMEND=build/emend $${EMEND_PYTHON:-.venv/bin/python} tests/random_models/soak.py $(ARGS)

soak-pairs: build  ## random pairs of models through verify, with planted differences and without (ARGS="--pairs 5000 --jobs 2"; ARGS=--help)
	@tools/setup.sh test
	@EMEND=build/emend $${EMEND_PYTHON:-.venv/bin/python} tests/random_pairs/pairs.py $(ARGS)

exports: build  ## exports of PyTorch with open sizes, beside OnnxSlim and onnxsim: sizes, values, nodes, times (some: EXPORTS="gpt* unet*"; ARGS=--help)
	@tools/setup.sh test
	@EMEND=build/emend $${EMEND_PYTHON:-.venv/bin/python} tests/exports/check.py $(EXPORTS) $(ARGS)

certify:  ## bring in the solver HiGHS and build with it, for closer bounds of `emend extract --certify`
	@tools/setup.sh certify
	@cmake --preset dev > /dev/null
	@cmake --build build --target emend_cli

bench: build  ## race the zoo against onnxruntime, openvino and torch.compile (some: MODELS="resnet18 bert_base"; ARGS=--help)
	@tools/setup.sh bench
	@$${EMEND_PYTHON:-.venv/bin/python} bench/compare.py $(MODELS) $(ARGS)

bench-kernels: build  ## race single kernels against onnxruntime and openvino (some: KERNELS="3x3 product"; ARGS=--help)
	@tools/setup.sh bench
	@$${EMEND_PYTHON:-.venv/bin/python} bench/kernels.py $(KERNELS) $(ARGS)

bench-quantized: build  ## race models in eight bits against onnxruntime and openvino (ARGS=--help)
	@tools/setup.sh bench
	@$${EMEND_PYTHON:-.venv/bin/python} bench/quantized.py $(ARGS)

bench-extract: build  ## extraction on TENSAT's own e-graphs: every method, ten seeds, the proof (ARGS=--help)
	@python3 bench/extract.py $(ARGS)

bench-tensat:  ## TENSAT's comparison run again: its search, TASO's and ours (ARGS="--variants squeezenet"; with HiGHS after make certify)
	@tools/setup.sh build
	@cmake --preset dev > /dev/null
	@cmake --build build --target bench_tensat
	@build/bench_tensat $(ARGS)

bench-pet:  ## PET's optimizer run again on our prices, beside our search (ARGS="--ablation --update-docs"; some: ARGS=csrnet_pet)
	@tools/setup.sh build
	@cmake --preset dev > /dev/null
	@cmake --build build --target bench_pet
	@build/bench_pet $(ARGS)

bench-search: build  ## what the search gains: the zoo with and without it, timed by turns (some: MODELS="nasrnn bert_tensat"; ARGS=--help)
	@tools/setup.sh bench
	@$${EMEND_PYTHON:-.venv/bin/python} bench/search.py $(MODELS) $(ARGS)

fit: build  ## refits the costs that estimates rest on, and how well they choose on networks that were not fitted to (ARGS="--networks 10"; ARGS=--help)
	@tools/setup.sh bench
	@$${EMEND_PYTHON:-.venv/bin/python} bench/fit.py $(ARGS)

bench-regret: build  ## what the search leaves on the table: networks from seeds and the zoo, searched in tens of ways (ARGS="--networks 30 --ways quick"; ARGS=--help)
	@tools/setup.sh bench
	@cmake --build build --target bench_regret
	@$${EMEND_PYTHON:-.venv/bin/python} bench/regret.py $(ARGS)

bench-slower: build  ## is -O2 ever slower than -O1, onnxruntime or openvino? networks from seeds and the zoo by turns (ARGS="--networks 10 --batch 1"; ARGS=--help)
	@tools/setup.sh bench
	@$${EMEND_PYTHON:-.venv/bin/python} bench/never_slower.py $(ARGS)

bench-target: build  ## what optimizing for onnxruntime gains there, or for openvino (ARGS="--target openvino"; some: MODELS="nasrnn squeezenet")
	@tools/setup.sh bench
	@$${EMEND_PYTHON:-.venv/bin/python} bench/target.py $(MODELS) $(ARGS)

bench-memory: build  ## what a start costs and what a process holds, against the bounds (some: MODELS="resnet18 bert_base")
	@python3 bench/memory.py $(MODELS) $(ARGS)

bench-mutate:  ## what proposing and proving mutants costs, with and without what is kept of proofs (some: MODELS="resnet18 csrnet")
	@tools/setup.sh build
	@cmake --preset dev > /dev/null
	@cmake --build build --target mutate_bench
	@build/mutate_bench $(MODELS)

bench-egraph:  ## race the e-graph against egglog on the math benchmark (some: ARGS="8 9"; ARGS=--help)
	@tools/setup.sh bench
	@cmake --preset dev > /dev/null
	@cmake --build build --target bench_egraph
	@$${EMEND_PYTHON:-.venv/bin/python} bench/egraph.py $(ARGS)

install: build  ## install the command, the header and the CMake package below PREFIX
	@cmake --build build --target emend_library
	@cmake --install build --prefix $(PREFIX)

asan:  ## unit, golden and fuzz tests and generated kernels under the address and undefined-behaviour sanitizers
	@tools/setup.sh test
	@cmake --workflow --preset asan

format:  ## format all C++ sources
	@python3 tools/format.py --fix

check-format:  ## is everything formatted?
	@python3 tools/format.py

clean:  ## remove what was built (.venv and the cache stay)
	rm -rf build build-*/

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
