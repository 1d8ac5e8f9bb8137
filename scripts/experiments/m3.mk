# M3: how far do the other mechanisms come on a task of their own? (TN §2.1, §2.6 to §2.8)
#
#   make -f scripts/experiments/m3.mk -j2 DATA=FOLDER [QUICK=1]
#
# lists/PART.tsv (questions of spans) -> logs/TASK_SEED.jsonl -> table.tsv, the figures loss-TASK.

NAME := m3
include $(dir $(lastword $(MAKEFILE_LIST)))common.mk

TASKS := matches cloze next spans
SEEDS := $(call seeds,4)
PARTS := train valid test

SHAKESPEARE     = data.text=$(DATA)/text/tinyshakespeare.txt
data_matches    = $(names) run.epochs=$(call usual,3,0.3)
data_cloze      = $(SHAKESPEARE) run.steps=$(call usual,1000,100)
data_next       = $(SHAKESPEARE) run.steps=$(call usual,1000,100)
data_spans      = $(foreach part,$(PARTS),data.$(part)=$(OUT)/lists/$(part).tsv) run.epochs=$(call usual,3,0.3)
metrics_matches := test.accuracy
metrics_cloze   := test.accuracy,test.accuracy_of_most_frequent,test.accuracy_of_last
metrics_next    := test.bits_per_character
metrics_spans   := test.exact_match,test.f1,test.iterations

TABLES := $(OUT)/table.tsv
all: $(TABLES) $(TASKS:%=$(OUT)/loss-%.png)

$(PARTS:%=$(OUT)/lists/%.tsv): $(OUT)/lists/%.tsv: $(HERE)/lists
	@mkdir -p $(@D)
	$(PYTHON) $(HERE)/lists $* $(if $(filter train,$*),6000,500) >$@.part && mv $@.part $@

of   = $(SEEDS:%=$(OUT)/logs/$1_%.jsonl)
LOGS := $(foreach task,$(TASKS),$(call of,$(task)))
$(LOGS): $(OUT)/logs/%.jsonl: $(TASKS:%=$(HERE)/recipes/m3-%.toml) $(PARTS:%=$(OUT)/lists/%.tsv)
	$(call train,m3-$(call word_of,1),$(data_$(call word_of,1)) seed=$(call word_of,2))

$(foreach task,$(TASKS),$(eval $(OUT)/table-$(task).tsv: $(call of,$(task))))
$(TASKS:%=$(OUT)/table-%.tsv): $(OUT)/table-%.tsv:
	$(call compare,task,--metric $(metrics_$*) --better higher,$^) >$@.part && mv $@.part $@

$(OUT)/table.tsv: $(TASKS:%=$(OUT)/table-%.tsv)
	$(join)

$(foreach task,$(TASKS),$(eval $(OUT)/loss-$(task).png: $(call of,$(task))))
$(TASKS:%=$(OUT)/loss-%.png):
	$(plot) $^ --quantity loss,valid.loss -o $@
