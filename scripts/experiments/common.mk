# What the experiments share. The Makefile of an experiment sets NAME before it includes this file.
#
# A run is called by words with _ between them, of which the last is its seed. Its log appears when the
# run has ended: by its last step, or by status 4, since a run whose loss is not finite or whose ratio R
# is near 0 is a result, too. An interrupted run goes on from its checkpoint when make runs again.

ROOT := $(patsubst %/scripts/experiments/,%,$(abspath $(dir $(lastword $(MAKEFILE_LIST))))/)
HERE := $(ROOT)/scripts/experiments

BIN    ?= $(ROOT)/build/release/bin
PYTHON ?= /usr/bin/python3
QUICK  ?=
OUT    ?= $(ROOT)/build/experiments/$(NAME)$(if $(QUICK),-quick)
DATA   ?= $(error DATA is missing: DATA=FOLDER holds text/, translit/ and alignment/, see scripts/experiments/README.md)
$(if $(word 2,$(BIN))$(word 2,$(OUT))$(word 2,$(HERE)),$(error BIN, OUT and the project have spaces in their names))
override OUT := $(abspath $(OUT))

export PATH := $(abspath $(BIN)):$(PATH)
# With -j2, two runs of one thread each. No bit depends on it.
export ATTN_NUM_THREADS ?= 1
export PYTHONDONTWRITEBYTECODE := 1
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

# The word N of a run's name, and the first N seeds, which are 0, 1, ...
word_of = $(word $1,$(subst _, ,$(basename $(notdir $@))))
seeds   = $(wordlist 1,$(if $(QUICK),3,$1),0 1 2 3 4 5 6 7 8 9)
# The first argument, or the second one if QUICK is set.
usual   = $(if $(QUICK),$2,$1)

# $(call train,RECIPE,SETTINGS[,OPTIONS]): a run, to its log $@. It and its checkpoints stay in $(OUT)/runs.
run = $(OUT)/runs/$(notdir $(@D))-$(basename $(notdir $@))
define train
@mkdir -p $(@D) $(OUT)/runs
attn-train $(HERE)/recipes/$1.toml $(addprefix --set ,$2) $3 --quiet -o $(run).h5 --log $(run).jsonl || [ $$? -eq 4 ]
sed 's|"$(DATA)/|"DATA/|g; s|"$(OUT)/|"OUT/|g' $(run).jsonl >$@.part && mv $@.part $@
endef

# The settings of the transliterations, columns as they are: Arabic, a tab, English.
names = $(foreach part,train valid test,data.$(part)=$(DATA)/translit/ar2en-$(patsubst valid,eval,$(part)).txt)

plot    = $(PYTHON) $(ROOT)/scripts/attn-plot training
comma  := ,
# $(call baselines,KIND,FILES): what answers without attention reach.
baselines = @mkdir -p $(@D) && $(PYTHON) $(HERE)/baselines $1 $2 >$@.part && mv $@.part $@

# The logs of finished runs, whether all are or not: `restore` puts those that are kept beside this file
# into OUT, and make runs only what they lack. In the order in which they are made, as what is unpacked
# later is newer.
KEPT  ?= $(HERE)/kept
KEPT_PARTS := baselines.tsv search rates rescaled logs
keep:
	$(if $(QUICK),$(error a run with QUICK=1 is not kept))
	@mkdir -p $(KEPT)
	tar --create --xz --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --exclude='*.part' \
	  --directory $(OUT) --file $(KEPT)/$(NAME).tar.xz $(notdir $(wildcard $(KEPT_PARTS:%=$(OUT)/%)))
restore:
	@mkdir -p $(OUT)
	tar --extract --touch --directory $(OUT) --file $(KEPT)/$(NAME).tar.xz

.PHONY: all keep restore
