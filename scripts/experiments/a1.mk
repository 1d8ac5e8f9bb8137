# A1: is SI-SGD better than SGD? (SI Tables 2 and 3)
#
#   make -f scripts/experiments/a1.mk -j2 DATA=FOLDER [QUICK=1]
#
# search/LAYERS_VARIANT_RATE.jsonl -> rates/LAYERS_VARIANT -> logs/LAYERS_VARIANT_SEED.jsonl;
# search-LAYERS and loss-LAYERS are figures. rescaled: from a rescaled start.

NAME := a1
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

DEPTHS   ?= 1 3
VARIANTS := sgd sgd-ones si-sgd si-sgd-own adam si-adam none-sgd none-adam
SEEDS    := $(call seeds,4)

# sgd-ones: SGD from the start of SI-SGD, whose skeletons have weights 1. si-sgd-own: SI-SGD from the start
# of SGD, where some ratios R are near 0: these columns are left out of a step. none-RULE: the same model
# without attention.
of_sgd              := optimizer.momentum=0.9
of_adam             := optimizer.rule=adam
settings_sgd        := $(of_sgd)
settings_sgd-ones   := $(of_sgd) optimizer.start-of=decoder.self optimizer.start=ones
settings_si-sgd     := $(of_sgd) optimizer.paths=decoder.self optimizer.start=ones
settings_si-sgd-own := $(of_sgd) optimizer.paths=decoder.self optimizer.singular=skip
settings_adam       := $(of_adam)
settings_si-adam    := $(of_adam) optimizer.paths=decoder.self optimizer.start=ones
settings_none-sgd   := $(of_sgd) decoder.self.scheme=none
settings_none-adam  := $(of_adam) decoder.self.scheme=none
rates_1_sgd  := 4.0 2.0 1.0 0.5
rates_1_adam := 0.016 0.008 0.004 0.002
rates_3_sgd  := 2.0 1.0 0.5
rates_3_adam := 0.008 0.004 0.002
rates = $(rates_$(firstword $(subst _, ,$1))_$(if $(findstring adam,$1),adam,sgd))

TEXT = data.text=$(DATA)/text/tinyshakespeare.txt
# Fixed before the first run. A search runs seed 0 to its end: shorter runs would prefer rates that are too large.
EPOCHS := $(call usual,10,1)

KINDS    := $(foreach d,$(DEPTHS),$(foreach v,$(VARIANTS),$d_$v))
all: $(OUT)/baselines.tsv $(OUT)/rescaled.png $(DEPTHS:%=$(OUT)/search-%.png) $(DEPTHS:%=$(OUT)/loss-%.png)

settings = $(TEXT) schedule.warm-up=$(call usual,100,0) model.layers=$(call word_of,1) $(settings_$(call word_of,2))

SEARCHED := $(foreach kind,$(KINDS),$(foreach r,$(call rates,$(kind)),$(OUT)/search/$(kind)_$r.jsonl))
$(SEARCHED): $(OUT)/search/%.jsonl: $(HERE)/recipes/a1.toml
	$(call train,a1,$(settings) seed=0 schedule.rate=$(call word_of,3) run.epochs=$(EPOCHS))

$(foreach kind,$(KINDS),$(eval $(OUT)/rates/$(kind): $(filter $(OUT)/search/$(kind)_%,$(SEARCHED))))
$(KINDS:%=$(OUT)/rates/%):
	@mkdir -p $(@D)
	$(PYTHON) $(HERE)/best-rate $^ >$@.part && mv $@.part $@

LOGS := $(foreach kind,$(KINDS),$(SEEDS:%=$(OUT)/logs/$(kind)_%.jsonl))
$(foreach kind,$(KINDS),$(eval $(SEEDS:%=$(OUT)/logs/$(kind)_%.jsonl): $(OUT)/rates/$(kind)))
$(filter %_0.jsonl,$(LOGS)): $(OUT)/logs/%_0.jsonl:
	@mkdir -p $(@D) && cp $(OUT)/search/$*_$(file <$<).jsonl $@
$(filter-out %_0.jsonl,$(LOGS)):
	$(call train,a1,$(settings) seed=$(call word_of,3) schedule.rate=$(file <$<) run.epochs=$(EPOCHS))

$(OUT)/baselines.tsv:
	$(call baselines,characters,$(DATA)/text/tinyshakespeare.txt)

$(foreach d,$(DEPTHS),$(eval $(OUT)/search-$d.png: $(filter $(OUT)/search/$d_%,$(SEARCHED))))
$(DEPTHS:%=$(OUT)/search-%.png):
	$(plot) $^ --by optimizer.rule,optimizer.paths,optimizer.start,decoder.self.scheme --quantity valid.loss --over schedule.rate -o $@

$(foreach d,$(DEPTHS),$(eval $(OUT)/loss-$d.png: $(filter $(OUT)/logs/$d_%,$(LOGS))))
$(DEPTHS:%=$(OUT)/loss-%.png):
	$(plot) $^ --by optimizer.rule,optimizer.paths,optimizer.start,decoder.self.scheme --quantity loss,valid.loss -o $@

# --- From a rescaled start: how far the losses of SI-SGD, and of SGD, are from those of the plain start.

STARTS := $(foreach p,f64 f32,$(foreach v,sgd si-sgd,$p_$v))
PLAIN  := $(STARTS:%=$(OUT)/rescaled/%_none.jsonl)
SCALED := $(STARTS:%=$(OUT)/rescaled/%_factors.jsonl)
$(PLAIN) $(SCALED): $(OUT)/rescaled/%.jsonl: $(HERE)/recipes/a1-rescaled.toml
	$(call train,a1-rescaled,$(TEXT) seed=0 precision=$(call word_of,1) optimizer.rescale=$(call word_of,3) \
	  $(if $(filter si-sgd,$(call word_of,2)),optimizer.paths=decoder.self) run.steps=$(call usual,200,20))

$(OUT)/rescaled.png: $(PLAIN) $(SCALED)
	$(plot) $(SCALED) $(PLAIN:%=--deviation-from %) -o $@
