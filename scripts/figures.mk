# The figures of the documents, from the tools: first bundles, then pictures of them, each made again
# only if its inputs have changed. `make figures` runs it; by hand, from the project's root:
#
#   make -f scripts/figures.mk BIN=build/release/bin OUT=build/figures -j2
#
# Captions are the commands below, from the bundles' history; without any: CAPTION=.

BIN    ?= build/release/bin
OUT    ?= build/figures
PYTHON ?= /usr/bin/python3
DPI    ?= 200
CAPTION ?= --caption
$(if $(word 2,$(OUT)),$(error OUT has spaces, which make cannot have in names: $(OUT)))

PLOT  := scripts/plot
DATA  := $(OUT)/data
INPUT := data/passage.h5
TRAINED := data/trained.h5
.DELETE_ON_ERROR:
export PATH := $(abspath $(BIN)):$(PATH)

FIGURES := column-sums collapse-curves collapse-steps-dot collapse-steps-gaussian evidence preferences \
           relative-deviation sinkhorn-error attention-map heatmap temperature
all: $(FIGURES:%=$(OUT)/%.pdf) $(FIGURES:%=$(OUT)/%.png)

# The figures in the README, smaller.
KEPT := column-sums collapse-steps-dot attention-map
kept:
	$(MAKE) -f $(firstword $(MAKEFILE_LIST)) OUT=$(OUT)/kept DPI=120 CAPTION= $(KEPT:%=$(OUT)/kept/%.png)
	mkdir -p data/figures && cp $(KEPT:%=$(OUT)/kept/%.png) data/figures/
	ATTN_BIN=$(BIN) tests/bench/view --picture data/figures/attn-view.png

# Makes both files at once, of the kind and from the data that are named below.
SHARED := $(addprefix $(PLOT)/,plotting.py fitting.py ticks.py words.py group_names.py libraries.py command.py targets.py \
            bundle.py caption.py)
kind    = $(subst _,-,$(basename $(notdir $(filter-out $(SHARED),$(filter $(PLOT)/%,$^)))))
$(OUT)/%.pdf $(OUT)/%.png: $(SHARED)
	$(PYTHON) scripts/attn-plot $(kind) $(filter $(DATA)/%,$^) $(OPTIONS) $(CAPTION) --dpi $(DPI) \
	  -o $(OUT)/$*

# --- EA Fig. 1: column sums under unas and dnas

$(DATA)/column-sums.h5: $(TRAINED) $(BIN)/explain-away-stats | $(DATA)
	explain-away-stats $< -q --only --force -o $@

$(OUT)/column-sums.pdf $(OUT)/column-sums.png: $(PLOT)/column_sums.py $(DATA)/column-sums.h5

# --- DN Fig. 2, EA Fig. 7: one step in closed form

$(DATA)/curves.h5: $(BIN)/mode-collapse-sim | $(DATA)
	mode-collapse-sim curve --r 1:1e8:801 --a 0.5,1,2 -q --force -o $@

$(OUT)/collapse-curves.pdf $(OUT)/collapse-curves.png: $(PLOT)/collapse_curves.py $(DATA)/curves.h5

# --- DN Fig. 5, 6; EA Fig. 6, 8, 9: the experiment in the plane, unbalanced and balanced

ENERGIES := dot gaussian
COUNTS   := 500,50 225,225
STEPS    := $(foreach e,$(ENERGIES),$(foreach c,$(COUNTS),$(DATA)/steps-$e-$c.h5))

$(STEPS): $(DATA)/steps-%.h5: $(BIN)/mode-collapse-sim | $(DATA)
	mode-collapse-sim simulate --counts $(word 2,$(subst -, ,$*)) --centres "1.8,0.7;-1,-1" \
	  --variance 0.1 --energy $(word 1,$(subst -, ,$*)) --seed 1 -q --force -o $@

$(foreach e,$(ENERGIES),$(eval $(OUT)/collapse-steps-$e.pdf $(OUT)/collapse-steps-$e.png: \
  $(PLOT)/collapse_steps.py $(COUNTS:%=$(DATA)/steps-$e-%.h5)))

# --- FD Fig. 3: evidence and the inference from it

ALPHAS := 0.3 1 3 10 30 100

$(DATA)/problem.h5: $(BIN)/tensor-gen | $(DATA)
	tensor-gen normal t=60x2 z=5x2 --seed 5 --dtype f64 -q --force -o $@

$(ALPHAS:%=$(DATA)/alpha-%.h5): $(DATA)/alpha-%.h5: $(DATA)/problem.h5 $(BIN)/lambda-solve
	lambda-solve --alpha $* $< -q --force -o $@

$(OUT)/evidence.pdf $(OUT)/evidence.png: $(PLOT)/evidence.py $(ALPHAS:%=$(DATA)/alpha-%.h5)

# The same with five templates of unequal preferences.

PREFERENCE_ALPHAS := 0.1 0.5 1 5

$(DATA)/five.h5: | $(DATA)
	$(PYTHON) -c 'import h5py; five = h5py.File("$@", "w"); \
	  five["t"] = [[-1.5, -0.8], [1.2, -1.1], [1.6, 0.7], [0.1, 1.6], [-1.3, 0.9]]; \
	  five["preference"] = [0.35, 0.25, 0.2, 0.15, 0.05]; five["z"] = [[0.5, 1.1]]'

$(PREFERENCE_ALPHAS:%=$(DATA)/five-%.h5): $(DATA)/five-%.h5: $(DATA)/five.h5 $(BIN)/lambda-solve
	lambda-solve --alpha $* $< -q --force -o $@

$(OUT)/preferences.pdf $(OUT)/preferences.png: $(PLOT)/evidence.py $(PREFERENCE_ALPHAS:%=$(DATA)/five-%.h5)

# --- FD Fig. 4: deviation of attention from inference

$(DATA)/deviation.h5: $(INPUT) $(BIN)/lambda-solve | $(DATA)
	lambda-solve --emit relative_deviation $< -q --only --force -o $@

$(OUT)/relative-deviation.pdf $(OUT)/relative-deviation.png: $(PLOT)/relative_deviation.py \
  $(DATA)/deviation.h5

# --- Sinkhorn's iterations

EPSILONS := 0.3 0.1 0.03 0.01 0.003

$(DATA)/points.h5: $(BIN)/tensor-gen | $(DATA)
	tensor-gen uniform q=200x2 k=200x2 --dtype f64 -q --force -o $@

$(EPSILONS:%=$(DATA)/epsilon-%.h5): $(DATA)/epsilon-%.h5: $(DATA)/points.h5 $(BIN)/sinkhorn-iter
	sinkhorn-iter --epsilon $* --tolerance 1e-10 --iterations 10000 --emit error $< -q --force -o $@

$(OUT)/sinkhorn-error.pdf $(OUT)/sinkhorn-error.png: $(PLOT)/sinkhorn_error.py \
  $(EPSILONS:%=$(DATA)/epsilon-%.h5)

# --- Weights with their sums

SCHEMES := unas dnas

$(SCHEMES:%=$(DATA)/weights-%.h5): $(DATA)/weights-%.h5: $(INPUT) $(BIN)/attn-compute | $(DATA)
	attn-compute --scheme $* --emit weights $< -q --force -o $@

$(OUT)/attention-map.pdf $(OUT)/attention-map.png: $(PLOT)/attention_map.py \
  $(SCHEMES:%=$(DATA)/weights-%.h5)
$(OUT)/attention-map.%: OPTIONS := --head 1 --queries 0:36 --keys 0:36

# --- A statistic by head, and over temperatures

$(DATA)/heads.tsv: $(INPUT) $(BIN)/explain-away-stats | $(DATA)
	explain-away-stats --tsv $< >$@.part && mv $@.part $@

$(OUT)/heatmap.pdf $(OUT)/heatmap.png: $(PLOT)/heatmap.py $(DATA)/heads.tsv

SCALES := 0.25 0.5 1 2 4

$(DATA)/temperatures.tsv: $(INPUT) $(BIN)/explain-away-stats | $(DATA)
	for x in $(SCALES); do explain-away-stats --scale $$x --tsv $< | \
	  sed "s/^/$$x\t/;1s/^$$x/scale/"; done | awk '!/^scale/ || NR == 1' >$@.part && mv $@.part $@

$(OUT)/temperature.pdf $(OUT)/temperature.png: $(PLOT)/temperature.py $(DATA)/temperatures.tsv

$(DATA):
	mkdir -p $@

# Last, so that $< does not name it: changed commands here mean changed data.
$(wildcard $(DATA)/*.h5 $(DATA)/*.tsv): scripts/figures.mk

.PHONY: all kept
