# What the experiments with scenes share: the scenes of tensor-gen, 16,000 to learn from, and others to
# judge by.

PARTS := train valid test
data   = $(foreach part,$(PARTS),data.$(part)=$(OUT)/scenes/$(part).h5)

scenes_train := 16000
scenes_valid := 1024
scenes_test  := 4096
# Clutter fills all 20 boxes, so that the mean column sum of a view is what 1/n = .05 stands beside.
# The detectors are the same in all parts (--map-seed). With more noise, one box tells too little of its colour.
seed_train   := 1
seed_valid   := 2
seed_test    := 3
$(PARTS:%=$(OUT)/scenes/%.h5): $(OUT)/scenes/%.h5:
	@mkdir -p $(@D)
	tensor-gen scenes --scenes $(scenes_$*) --noise 0.1 --clutter full --seed $(seed_$*) --quiet --force -o $@

$(OUT)/baselines.tsv: $(PARTS:%=$(OUT)/scenes/%.h5)
	$(call baselines,scenes,$(OUT)/scenes/train.h5 $(OUT)/scenes/test.h5)
