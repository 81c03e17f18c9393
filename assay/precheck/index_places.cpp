#include "assay/precheck/index_places.h"

#include <optional>
#include <string_view>

#include "assay/precheck/random/arguments.h"

namespace assay::precheck {
namespace {

using conform::Value;

class Reader {
 public:
  Reader(const std::string& api, const CallInputs& inputs)
      : inputs_(inputs),
        call_{api, &inputs.arguments, &inputs.tensors},
        arguments_(call_),
        name_(random_name(api)),
        self_(arguments_.tensor(0, {"input", "self"})) {}

  Places run() {
    if (!self_) return {};
    if (name_ == "scatter") return scatter();
    if (name_ == "index_copy") return index_copy();
    if (name_ == "put") return put();
    if (name_ == "index_put" || name_ == "index_put_impl") return index_put();
    if (name_ == "setitem") return setitem();
    return {};
  }

 private:
  // A tensor of more than one element: others write the same everywhere.
  bool differs(int place, std::initializer_list<const char*> names) const {
    const Tensor* values = arguments_.tensor(place, names);
    return values && values->numel() > 1;
  }

  std::optional<std::int64_t> dimension() const {
    const auto dim = arguments_.number(1, {"dim"}, std::nullopt);
    const auto rank = static_cast<std::int64_t>(self_->shape().size());
    if (!dim || rank == 0) return std::nullopt;
    auto at = static_cast<std::int64_t>(*dim);
    if (at < 0) at += rank;
    if (at < 0 || at >= rank) return std::nullopt;
    return at;
  }

  bool add(const Value* value, std::int64_t size, Places& places) const {
    const Value* name = value ? value->find("tensor") : nullptr;
    if (!name || !name->is_text()) return false;
    const auto found = inputs_.tensors.find(name->text());
    if (found == inputs_.tensors.end()) return false;
    const DType dtype = found->second.dtype();
    if (!is_exact(dtype) || dtype == DType::kBool) return false;
    places.indices.push_back({name->text(), size});
    return true;
  }

  Places scatter() const {
    Places places;
    const auto dim = dimension();
    if (!dim || !differs(3, {"src"}) || arguments_.find(4, {"reduce"}))
      return places;
    add(arguments_.find(2, {"index"}),
        self_->shape()[static_cast<std::size_t>(*dim)], places);
    places.along = *dim;
    return places;
  }

  Places index_copy() const {
    Places places;
    const auto dim = dimension();
    if (dim && differs(3, {"source", "tensor"}))
      add(arguments_.find(2, {"index"}),
          self_->shape()[static_cast<std::size_t>(*dim)], places);
    return places;
  }

  Places put() const {
    Places places;
    if (differs(2, {"source"}) &&
        arguments_.flag(3, {"accumulate"}, false) == false)
      add(arguments_.find(1, {"index"}), self_->numel(), places);
    return places;
  }

  Places index_put() const {
    const Value* list = arguments_.find(1, {"indices"});
    const Value* items = list ? list->find("items") : nullptr;
    if (!items || !items->is_list() || !differs(2, {"values"}) ||
        arguments_.flag(3, {"accumulate"}, false) != false)
      return {};
    return of_items(items->list(), false);
  }

  Places setitem() const {
    const Value* key = arguments_.find(1, {});
    if (!key || !differs(2, {})) return {};
    if (const Value* items = key->find("items"); items && items->is_list())
      return of_items(items->list(), true);
    Places places;
    add(key, self_->shape().empty() ? -1 : self_->shape()[0], places);
    return places;
  }

  static std::string_view type_of(const Value& item) {
    const Value* type = item.find("type");
    return type && type->is_text() ? std::string_view(type->text()) : "";
  }

  // `is_key`: as Python's brackets read them, where None is a new dimension.
  Places of_items(const conform::List& items, bool is_key) const {
    Places places;
    std::optional<std::size_t> dim = 0;
    for (const Value& item : items) {
      const std::string_view type = type_of(item);
      if (type == "NoneType" && is_key) continue;
      if (type == "ellipsis") dim.reset();
      if (item.find("tensor")) {
        const bool known = dim && *dim < self_->shape().size();
        if (!add(&item, known ? self_->shape()[*dim] : -1, places)) return {};
      } else if (type.empty()) {
        return {};
      }
      if (dim) ++*dim;
    }
    return places;
  }

  const CallInputs& inputs_;
  const RandomCall call_;
  const RandomArguments arguments_;
  const std::string name_;
  const Tensor* self_;
};

}  // namespace

Places places_of(const std::string& api, const CallInputs& inputs) {
  return Reader(api, inputs).run();
}

}  // namespace assay::precheck
