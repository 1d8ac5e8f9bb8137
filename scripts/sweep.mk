# An experiment as a Makefile, to copy and change: which keys are explained away, over temperatures
# (the scale of the scores) and shares of the hybrid (0 is softmax, 1 is dnas)?
#
#   make -f scripts/sweep.mk -j2
#   make -f scripts/sweep.mk -j2 INPUT=layer3.h5 OUT=layer3-sweep SCALES="0.5 1 2"
#   make -f scripts/sweep.mk -j64 LAUNCH="srun -n1 -c1"
#   make -f scripts/sweep.mk PART=3/8
#
# INPUT -> attention/SCALE_SHARE.h5 -> stats/SCALE_SHARE.tsv -> table.tsv
#       -> sums/SCALE.h5            -> sums/SCALE.pdf and .png
#
# After an interruption it continues; with another value in a list it makes only the missing files and
# the table again: every file appears whole or not at all. LAUNCH precedes each command of attnkit, as
# srun does in an allocation of Slurm (scripts/slurm). INPUT is a file. PART=I/N makes the I-th of N parts
# of the cells, and no table; when all parts are made, the same command without it makes the rest.

BIN    ?= build/release/bin
INPUT  ?= data/passage.h5
OUT    ?= build/sweep
SCALES ?= 0.25 0.5 1 2
SHARES ?= 0 0.25 0.5 1
PYTHON ?= /usr/bin/python3
# Of a checkout, or as installed.
PLOT   ?= $(or $(wildcard scripts/attn-plot),$(shell command -v attn-plot))
LAUNCH ?=
PART   ?=
$(if $(word 2,$(INPUT))$(word 2,$(OUT)),$(error INPUT and OUT are names without spaces))

export PATH := $(abspath $(BIN)):$(PATH)
# With -j2, two runs of one thread each.
export ATTN_NUM_THREADS ?= 1
.DELETE_ON_ERROR:

# A cell of the grid is called SCALE_SHARE.
CELLS := $(foreach scale,$(SCALES),$(foreach share,$(SHARES),$(scale)_$(share)))
scale  = $(word 1,$(subst _, ,$*))
share  = $(word 2,$(subst _, ,$*))

# Intermediate files are kept. They are named, since an unnamed missing file would not be made again.
.SECONDARY: $(CELLS:%=$(OUT)/attention/%.h5) $(SCALES:%=$(OUT)/sums/%.h5)

$(if $(PART),$(if $(shell echo '$(PART)' | awk -F/ 'NF == 2 && $$1 == $$1 + 0 && $$2 == $$2 + 0 && 1 <= $$1 && $$1 <= $$2'),,\
  $(error PART is I/N with 1 <= I <= N, not $(PART))))
# Every N-th of the words, from the I-th on; without PART all of them.
part_of = $(if $(PART),$(shell printf '%s\n' $1 | awk -v part=$(PART) \
  'BEGIN { split(part, of, "/") } NR % of[2] == of[1] % of[2]'),$1)

all: $(if $(PART),part,$(OUT)/table.tsv $(SCALES:%=$(OUT)/sums/%.pdf))
part: $(patsubst %,$(OUT)/stats/%.tsv,$(call part_of,$(CELLS))) \
  $(patsubst %,$(OUT)/sums/%.h5,$(call part_of,$(SCALES)))

# The settings of the last run, written before anything else: if they have changed, these two files
# are newer than the results of that run.
asked = $(shell mkdir -p $(OUT); echo '$2' | cmp -s - $(OUT)/$1 || echo '$2' >$(OUT)/$1)
$(call asked,input,$(INPUT))$(call asked,cells,$(CELLS))

$(OUT)/attention/%.h5: $(INPUT) $(OUT)/input | $(OUT)/attention
	$(LAUNCH) attn-compute --scheme hnas --scale $(scale) --hybrid $(share) $< --quiet --force -o $@

# The options of the run above are recorded in its bundle and apply here: the same scores and shares.
$(OUT)/stats/%.tsv: $(OUT)/attention/%.h5 | $(OUT)/stats
	$(LAUNCH) explain-away-stats --scheme hnas --epsilon 1e-8,1e-3 --tsv $< >$@.part
	mv $@.part $@

# A header line, then the lines of all cells, each preceded by its scale and share (hybrid).
# `attn-plot temperature` draws it.
$(OUT)/table.tsv: $(CELLS:%=$(OUT)/stats/%.tsv) $(OUT)/cells
	awk -v OFS='\t' 'FNR == 1 && NR > 1 { next } \
	  { cell = FILENAME; sub(".*/", "", cell); sub("[.]tsv$$", "", cell); split(cell, at, "_") } \
	  { print (NR == 1 ? "scale" OFS "hybrid" : at[1] OFS at[2]), $$0 }' $(filter %.tsv,$^) >$@.part
	mv $@.part $@

$(OUT)/sums/%.h5: $(INPUT) $(OUT)/input | $(OUT)/sums
	$(LAUNCH) explain-away-stats --scheme unas,dnas --scale $* $< --quiet --only --force -o $@

$(OUT)/sums/%.pdf: $(OUT)/sums/%.h5
	$(LAUNCH) $(PYTHON) $(PLOT) column-sums $< -o $(@:.pdf=)

$(OUT)/attention $(OUT)/stats $(OUT)/sums:
	mkdir -p $@

.PHONY: all part
