# A1: is SI-SGD better than SGD? (SI Tables 2 and 3)
#
#   make -f scripts/experiments/a1.mk -j2 DATA=FOLDER [QUICK=1]
#
# search/LEVEL_LAYERS_VARIANT_RATE.jsonl -> rates/LEVEL_LAYERS_VARIANT -> logs/LEVEL_LAYERS_VARIANT_SEED.jsonl
# -> table.tsv; search-LEVEL-LAYERS and loss-LEVEL-LAYERS are figures. rescaled: from a rescaled start.

NAME := a1
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

LEVELS   ?= characters words
DEPTHS   ?= 1 3
RATES    ?= 2 1 0.5 0.25 0.1
VARIANTS := sgd si-sgd sgd-ones
SEEDS    := $(call seeds,4)

# sgd-ones: SGD from the start of SI-SGD, whose skeletons have weights 1.
settings_sgd      :=
settings_si-sgd   := optimizer.paths=decoder.self optimizer.start=ones
settings_sgd-ones := optimizer.start-of=decoder.self optimizer.start=ones

TEXT             = data.text=$(DATA)/text/tinyshakespeare.txt
data_characters  = $(TEXT)
data_words       = $(foreach part,train valid test,data.$(part)=$(DATA)/text/wiki.$(part).tokens)
# Fixed before the first run. A search takes a fifth of the epochs.
epochs_characters := $(call usual,10,1)
search_characters := $(call usual,2,0.2)
epochs_words      := $(call usual,3,0.3)
search_words      := $(call usual,0.6,0.06)
metric_characters := test.bits_per_character
metric_words      := test.perplexity

TRIED := $(foreach l,$(LEVELS),$(foreach d,$(DEPTHS),$(foreach v,$(VARIANTS),$l_$d_$v)))
KINDS := $(foreach l,$(LEVELS),$(foreach d,$(DEPTHS),$l-$d))
of     = $(foreach v,$(VARIANTS),$(foreach s,$2,$(OUT)/$1/$(subst -,_,$3)_$v_$s.jsonl))

TABLES := $(OUT)/table.tsv $(OUT)/rescaled.tsv
all: $(TABLES) $(OUT)/rescaled.png $(KINDS:%=$(OUT)/search-%.png) $(KINDS:%=$(OUT)/loss-%.png)

level    = $(call word_of,1)
settings = $(data_$(level)) model.layers=$(call word_of,2) $(settings_$(call word_of,3))

SEARCHED := $(foreach kind,$(KINDS),$(call of,search,$(RATES),$(kind)))
$(SEARCHED): $(OUT)/search/%.jsonl: $(HERE)/recipes/a1-characters.toml $(HERE)/recipes/a1-words.toml
	$(call train,a1-$(level),$(settings) seed=0 schedule.rate=$(call word_of,4) run.epochs=$(search_$(level)))

$(foreach name,$(TRIED),$(eval $(OUT)/rates/$(name): $(RATES:%=$(OUT)/search/$(name)_%.jsonl)))
$(TRIED:%=$(OUT)/rates/%):
	@mkdir -p $(@D)
	$(PYTHON) $(HERE)/best-rate $^ >$@.part && mv $@.part $@

LOGS := $(foreach kind,$(KINDS),$(call of,logs,$(SEEDS),$(kind)))
$(foreach name,$(TRIED),$(eval $(SEEDS:%=$(OUT)/logs/$(name)_%.jsonl): $(OUT)/rates/$(name)))
$(LOGS):
	$(call train,a1-$(level),$(settings) seed=$(call word_of,4) schedule.rate=$(file <$<) run.epochs=$(epochs_$(level)))

$(foreach level,$(LEVELS),$(eval $(OUT)/table-$(level).tsv: $(filter $(OUT)/logs/$(level)_%,$(LOGS))))
$(LEVELS:%=$(OUT)/table-%.tsv): $(OUT)/table-%.tsv:
	$(call compare,level$(comma)layers$(comma)variant,--baseline variant=sgd --baseline variant=sgd-ones \
	  --metric $(metric_$*) --better lower --recipe schedule.rate,$^) >$@.part && mv $@.part $@

$(OUT)/table.tsv: $(LEVELS:%=$(OUT)/table-%.tsv)
	$(join)

$(foreach kind,$(KINDS),$(eval $(OUT)/search-$(kind).png: $(call of,search,$(RATES),$(kind))))
$(KINDS:%=$(OUT)/search-%.png):
	$(plot) $^ --by optimizer.paths,optimizer.start --quantity valid.loss --over schedule.rate -o $@

$(foreach kind,$(KINDS),$(eval $(OUT)/loss-$(kind).png: $(call of,logs,$(SEEDS),$(kind))))
$(KINDS:%=$(OUT)/loss-%.png):
	$(plot) $^ --by optimizer.paths,optimizer.start --quantity loss,valid.loss -o $@

# --- From a rescaled start: how far the losses of SI-SGD, and of SGD, are from those of the plain start.

STARTS := $(foreach p,f64 f32,$(foreach v,sgd si-sgd,$p_$v))
PLAIN  := $(STARTS:%=$(OUT)/rescaled/%_none.jsonl)
SCALED := $(STARTS:%=$(OUT)/rescaled/%_factors.jsonl)
$(PLAIN) $(SCALED): $(OUT)/rescaled/%.jsonl: $(HERE)/recipes/a1-rescaled.toml
	$(call train,a1-rescaled,$(TEXT) seed=0 precision=$(call word_of,1) optimizer.rescale=$(call word_of,3) \
	  $(if $(filter si-sgd,$(call word_of,2)),optimizer.paths=decoder.self) run.steps=$(call usual,200,20))

$(OUT)/rescaled.tsv: $(PLAIN) $(SCALED)
	$(PYTHON) $(HERE)/loss-deviations $(foreach name,$(STARTS),$(name:%=$(OUT)/rescaled/%_none.jsonl) \
	  $(name:%=$(OUT)/rescaled/%_factors.jsonl)) >$@.part && mv $@.part $@

$(OUT)/rescaled.png: $(PLAIN) $(SCALED)
	$(plot) $(SCALED) $(PLAIN:%=--deviation-from %) -o $@
