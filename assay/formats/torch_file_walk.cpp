#include "assay/formats/torch_file_walk.h"

#include <cstring>
#include <unordered_set>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/formats/bytes.h"

namespace assay {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxKeyDepth = 4;
constexpr std::uint64_t kBaseBudget = 32 << 20;
constexpr std::size_t kNamedInNote = 3;

class Walker {
 public:
  explicit Walker(const TorchArchive& archive)
      : archive_(archive),
        pickle_(*archive.pickle),
        budget_(kBaseBudget + 2 * archive.zip->file().bytes.size()) {}

  TorchLeaves run() {
    visit(pickle_.root(), 0);
    refuse_same_names();
    add_note();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(std::string_view found,
                         std::string_view expected) const {
    refuse(archive_.zip->file().name + ": data.pkl", archive_.pickle_offset,
           found, expected);
  }

  void charge(std::uint64_t bytes) {
    if (bytes > budget_) {
      fail("a graph that expands out of proportion to the file",
           "entries that the file's bytes justify");
    }
    budget_ -= bytes;
  }

  // path_ is the name of `value`.
  void visit(const PickleValue& value, int depth) {
    if (depth > kMaxDepth) {
      fail("values nested deeper than 64", "less nesting");
    }
    charge(sizeof(PickleValue));
    switch (value.kind) {
      case PickleKind::kBool:
      case PickleKind::kInt:
      case PickleKind::kFloat:
        return add_number(value);
      case PickleKind::kBigInt:
        return add_unsupported("an integer beyond 64 bits");
      case PickleKind::kPersistent:
        return add_unsupported("a bare storage without dtype and shape");
      case PickleKind::kTuple:
      case PickleKind::kList:
        return visit_list(pickle_.items(value), depth);
      case PickleKind::kDict:
        return visit_pairs(pickle_.items(value), depth);
      case PickleKind::kCall:
        return visit_call(value, depth);
      default:
        return skip(value);
    }
  }

  void visit_call(const PickleValue& value, int depth) {
    const auto items = pickle_.items(value);
    const auto arguments = pickle_.items(items[1]);
    switch (torch_global(items[0]).role) {
      case TorchRole::kOrderedDict:
        if (!arguments.empty()) {
          fail("OrderedDict with arguments", "OrderedDict()");
        }
        return visit_pairs(items.subspan(3), depth);
      case TorchRole::kSize:
        if (arguments.size() != 1) fail("torch.Size without tuple", "one");
        return visit(arguments[0], depth + 1);
      case TorchRole::kComplex:
        return add_complex(arguments);
      case TorchRole::kInert:
        return skip(value);
      default:
        return add_tensor(items[0], items[1]);
    }
  }

  void visit_list(std::span<const PickleValue> items, int depth) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      visit_child(items[i], std::to_string(i), depth);
    }
  }

  void visit_pairs(std::span<const PickleValue> items, int depth) {
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i].is(PickleKind::kString)) {
        visit_child(items[i + 1], pickle_.text(items[i]), depth);
      } else {
        visit_child(items[i + 1], key_text(items[i], 0), depth);
      }
    }
  }

  void visit_child(const PickleValue& value, std::string_view key, int depth) {
    const std::size_t length = path_.size();
    charge(key.size());
    if (levels_++ > 0) path_ += '.';
    path_ += key;
    visit(value, depth + 1);
    path_.resize(length);
    --levels_;
  }

  std::string key_text(const PickleValue& key, int depth) {
    charge(sizeof(PickleValue));
    switch (key.kind) {
      case PickleKind::kString:
        return std::string(pickle_.text(key));
      case PickleKind::kInt:
        return std::to_string(key.integer());
      case PickleKind::kBool:
        return key.at ? "True" : "False";
      case PickleKind::kNone:
        return "None";
      case PickleKind::kFloat:
        return format_double(key.real());
      case PickleKind::kTuple:
        if (depth < kMaxKeyDepth) return tuple_text(key, depth);
        [[fallthrough]];
      default:
        fail("a dict key of another kind",
             "a string, number, bool, None or tuple of them");
    }
  }

  std::string tuple_text(const PickleValue& key, int depth) {
    std::string text = "(";
    for (const PickleValue& item : pickle_.items(key)) {
      if (text.size() > 1) text += ", ";
      text += key_text(item, depth + 1);
      charge(text.size());
    }
    return text + ")";
  }

  TorchLeaf& add_leaf() {
    charge(sizeof(TorchLeaf) + path_.size());
    if (!is_valid_utf8(path_)) {
      fail("name '" + printable(path_.substr(0, 200)) + "'", "valid UTF-8");
    }
    result_.leaves.emplace_back().name = path_;
    return result_.leaves.back();
  }

  void add_unsupported(std::string reason) {
    add_leaf().tensor.unsupported = std::move(reason);
  }

  void add_tensor(const PickleValue& function, const PickleValue& arguments) {
    add_leaf().tensor = read_torch_tensor(archive_, function, arguments);
  }

  void add_number(const PickleValue& value) {
    TorchLeaf& leaf = add_leaf();
    leaf.is_scalar = true;
    if (value.is(PickleKind::kBool)) {
      leaf.tensor.dtype = DType::kBool;
      leaf.scalar[0] = std::byte(value.at);
      return;
    }
    leaf.tensor.dtype = value.is(PickleKind::kInt) ? DType::kI64 : DType::kF64;
    std::memcpy(leaf.scalar.data(), &value.at, sizeof(value.at));
  }

  void add_complex(std::span<const PickleValue> parts) {
    if (parts.size() != 2 || !parts[0].is(PickleKind::kFloat) ||
        !parts[1].is(PickleKind::kFloat)) {
      fail("complex() of other arguments", "two floats");
    }
    TorchLeaf& leaf = add_leaf();
    leaf.is_scalar = true;
    leaf.tensor.dtype = DType::kC128;
    std::memcpy(leaf.scalar.data(), &parts[0].at, 8);
    std::memcpy(leaf.scalar.data() + 8, &parts[1].at, 8);
  }

  static std::string_view kind_text(const PickleValue& value) {
    switch (value.kind) {
      case PickleKind::kNone:
        return "None";
      case PickleKind::kString:
        return "a string";
      case PickleKind::kBytes:
        return "bytes";
      case PickleKind::kGlobal:
        return "a dtype or class";
      default:
        return "a device or layout";
    }
  }

  void add_text(std::string_view text) {
    charge(text.size());
    TorchLeaf& leaf = add_leaf();
    leaf.is_text = true;
    leaf.text = text;
    leaf.tensor.dtype = DType::kU8;
    leaf.tensor.shape = {static_cast<std::int64_t>(text.size())};
  }

  void skip(const PickleValue& value) {
    if (value.is(PickleKind::kString) && &value != &pickle_.root()) {
      return add_text(pickle_.text(value));
    }
    const std::string_view kind = kind_text(value);
    if (&value == &pickle_.root()) {
      return add_unsupported("the file holds " + std::string(kind) +
                             ", no tensor");
    }
    if (++skipped_ > kNamedInNote) return;
    skipped_names_ += skipped_ > 1 ? ", '" : " '";
    skipped_names_ += printable(path_.substr(0, 100));
    skipped_names_ += "' (";
    skipped_names_ += kind;
    skipped_names_ += ")";
  }

  void add_note() {
    if (skipped_ == 0) return;
    result_.notes.push_back(
        std::to_string(skipped_) + " values hold no numbers, skipped:" +
        skipped_names_ + (skipped_ > kNamedInNote ? ", ..." : ""));
  }

  void refuse_same_names() const {
    std::unordered_set<std::string_view> seen;
    if (result_.leaves.size() < 2) return;
    for (const TorchLeaf& leaf : result_.leaves) {
      if (!seen.insert(leaf.name).second) {
        fail("two values named '" + printable(leaf.name.substr(0, 200)) + "'",
             "each name once");
      }
    }
  }

  const TorchArchive& archive_;
  const Pickle& pickle_;
  std::uint64_t budget_;
  std::string path_;
  int levels_ = 0;  // keys in path_
  std::uint64_t skipped_ = 0;
  std::string skipped_names_;
  TorchLeaves result_;
};

}  // namespace

TorchLeaves walk_torch_pickle(const TorchArchive& archive) {
  return Walker(archive).run();
}

}  // namespace assay
