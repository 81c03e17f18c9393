#include "assay/te/modules/autocast.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "assay/te/check.h"

namespace assay::te {
namespace {

thread_local AutocastState current;
thread_local const Autocast* innermost = nullptr;
thread_local const QuantizedModelInitOptions* init_options = nullptr;

}  // namespace

bool AutocastRegion::add(const Entry& entry) {
  const auto same = [&](const Entry& e) { return e.forward == entry.forward; };
  if (std::any_of(entries_.begin(), entries_.end(), same)) return false;
  entries_.push_back(entry);
  return true;
}

void AutocastRegion::update_forward() { update(&Entry::forward); }
void AutocastRegion::update_backward() { update(&Entry::backward); }

void AutocastRegion::update(std::shared_ptr<RecipeState> Entry::*states) {
  // One reduction for each group, in the order in which groups came up.
  std::vector<AmaxReduction*> groups;
  for (const Entry& e : entries_) {
    if (std::find(groups.begin(), groups.end(), e.reduction.get()) ==
        groups.end())
      groups.push_back(e.reduction.get());
  }
  for (AmaxReduction* group : groups) {
    std::vector<RecipeState*> members;
    for (const Entry& e : entries_)
      if (e.reduction.get() == group) members.push_back((e.*states).get());
    update_delayed_scaling(members, group);
  }
}

const AutocastState& autocast_state() { return current; }

Recipe default_recipe() { return recipe::MXFP8BlockScaling{}; }

Autocast::Autocast(const AutocastOptions& options)
    : before_(current),
      around_(innermost),
      exceptions_(std::uncaught_exceptions()) {
  validate(options.recipe);
  outermost_ = options.enabled && !before_.region;
  current.enabled = options.enabled;
  current.calibrating = options.calibrating && !options.enabled;
  current.recipe = std::make_shared<const Recipe>(options.recipe);
  current.amax_reduction = options.amax_reduction;
  if (outermost_) current.region = std::make_shared<AutocastRegion>();
  innermost = this;
}

void Autocast::leave() {
  open_ = false;
  current = before_;
  innermost = around_;
}

void Autocast::end() {
  if (!open_) return;
  require(innermost == this, "Autocast", "end",
          "with a scope open inside of it", "the innermost scope");
  const auto region = current.region;
  leave();
  if (outermost_) region->update_forward();
}

Autocast::~Autocast() noexcept(false) {
  // A pass that an exception ended leaves half a step's maxima: no update.
  if (std::uncaught_exceptions() > exceptions_) {
    leave();
  } else {
    end();
  }
}

RestoredAutocast::RestoredAutocast(AutocastState state)
    : before_(std::exchange(current, std::move(state))) {}

RestoredAutocast::~RestoredAutocast() { current = std::move(before_); }

const QuantizedModelInitOptions* quantized_model_init() { return init_options; }

QuantizedModelInit::QuantizedModelInit(QuantizedModelInitOptions options)
    : options_(std::move(options)), before_(init_options) {
  validate(options_.recipe);
  init_options = options_.enabled ? &options_ : nullptr;
}

QuantizedModelInit::~QuantizedModelInit() { init_options = before_; }

}  // namespace assay::te
