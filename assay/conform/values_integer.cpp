// Kinds of values that are whole numbers: indices, masks, codes, splits.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "assay/base/checked.h"
#include "assay/conform/values.h"
#include "assay/conform/values_random.h"
#include "assay/numerics/float_format.h"

namespace assay::conform {
namespace {

// A share of `count` as a number of elements, at least one and not all of them
// where the share is strictly between and there is room.
std::int64_t share_of(const Draw& draw, const char* name, double absent,
                      std::int64_t count) {
  const double share = draw.number(name, absent);
  if (!(share >= 0 && share <= 1))
    draw.fail(fmt::format("{} {}, expected 0 to 1", name, share));
  const auto exact =
      static_cast<std::int64_t>(share * static_cast<double>(count) + 0.5);
  if (share == 0 || share == 1 || count < 2) return std::min(exact, count);
  return std::clamp<std::int64_t>(exact, 1, count - 1);
}

// `parts` non-negative units that sum to `units`: the gaps between random
// cuts.
std::vector<std::int64_t> random_parts(OrderedRandom& random,
                                       std::int64_t units, std::int64_t parts) {
  std::vector<std::int64_t> cuts = {0, units};
  for (std::int64_t i = 1; i < parts; ++i)
    cuts.push_back(random.below(units + 1));
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 1; i < cuts.size(); ++i)
    sizes.push_back(cuts[i] - cuts[i - 1]);
  return sizes;
}

// Sizes of `parts` that sum to the option `total`: multiples of `multiple`,
// one of them 0 with `empty`, none of them 0 without.
std::vector<std::int64_t> draw_sizes(const Draw& draw, std::int64_t parts,
                                     bool empty) {
  const std::int64_t total = draw.integer("total");
  const std::int64_t multiple = draw.integer("multiple", 1);
  if (total < 0 || multiple < 1 || total % multiple != 0)
    draw.fail(fmt::format("a total of {} in multiples of {}", total, multiple));
  if (parts == 0 && total > 0)
    draw.fail(fmt::format("a total of {} in no parts", total));
  if (parts == 0) return {};
  OrderedRandom random(draw);
  const std::int64_t units = total / multiple;
  // Without empty ones every part has one unit before the rest is dealt.
  const std::int64_t base = !empty && units >= parts ? 1 : 0;
  std::vector<std::int64_t> sizes =
      random_parts(random, units - base * parts, parts);
  for (std::int64_t& size : sizes) size = (size + base) * multiple;
  if (empty && parts > 1) {
    const auto from = static_cast<std::size_t>(random.below(parts));
    sizes[(from + 1) % sizes.size()] += sizes[from];
    sizes[from] = 0;
  }
  return sizes;
}

void need_vector(const Draw& draw) {
  if (draw.shape.size() != 1)
    draw.fail(
        fmt::format("shape {}, expected one dimension", to_string(draw.shape)));
}

}  // namespace

void draw_integers(const Draw& draw) {
  const std::int64_t low = draw.integer("low", 0), high = draw.integer("high");
  const std::optional<std::int64_t> past = checked_add(high, 1);
  std::int64_t count = 0;
  if (low > high || !past || __builtin_sub_overflow(*past, low, &count))
    draw.fail(fmt::format("integers from {} to {}", low, high));
  for (std::int64_t i = 0; i < draw.numel; ++i)
    draw.put(i, low + ElementRandom(draw.key, i).below(count));
}

void draw_arange(const Draw& draw) {
  const std::int64_t start = draw.integer("start", 0);
  const std::int64_t step = draw.integer("step", 1);
  for (std::int64_t i = 0; i < draw.numel; ++i) {
    const std::optional<std::int64_t> product = checked_mul(i, step);
    const std::optional<std::int64_t> value =
        product ? checked_add(start, *product) : std::nullopt;
    if (!value) draw.fail("an integer beyond 64 bits");
    draw.put(i, *value);
  }
}

void draw_mask(const Draw& draw) {
  const std::int64_t set = share_of(draw, "share", 0.5, draw.numel);
  OrderedRandom random(draw);
  for (const std::int64_t place : choose(random, draw.numel, set))
    draw.put(place, 1);
}

void draw_permutation(const Draw& draw) {
  const std::int64_t columns = draw.columns();
  OrderedRandom random(draw);
  for (std::int64_t row = 0; row < draw.rows(); ++row) {
    std::int64_t place = row * columns;
    for (const std::int64_t value : choose(random, columns, columns))
      draw.put(place++, value);
  }
}

void draw_sorted(const Draw& draw) {
  if (is_exact(draw.dtype)) {
    draw_integers(draw);
  } else {
    draw_normal(draw);
  }
  const std::int64_t columns = draw.columns();
  struct Element {
    double value;
    std::uint64_t code;
  };
  std::vector<Element> row(static_cast<std::size_t>(columns));
  for (std::int64_t begin = 0; begin < draw.numel; begin += columns) {
    for (std::int64_t i = 0; i < columns; ++i)
      row[static_cast<std::size_t>(i)] = {
          load_as_double(draw.dtype, draw.data, begin + i),
          load_code(draw.dtype, draw.data, begin + i)};
    std::stable_sort(
        row.begin(), row.end(),
        [](const Element& a, const Element& b) { return a.value < b.value; });
    for (std::int64_t i = 0; i < columns; ++i)
      store_code(draw.dtype, row[static_cast<std::size_t>(i)].code, draw.data,
                 begin + i);
  }
}

void draw_labels(const Draw& draw) {
  const std::int64_t classes = draw.integer("classes");
  if (classes < 1) draw.fail(fmt::format("{} classes", classes));
  for (std::int64_t i = 0; i < draw.numel; ++i)
    draw.put(i, ElementRandom(draw.key, i).below(classes));
  const std::int64_t ignored = share_of(draw, "ignore_share", 0, draw.numel);
  const std::int64_t index = draw.integer("ignore_index", -100);
  OrderedRandom random(draw);
  for (const std::int64_t place : choose(random, draw.numel, ignored))
    draw.put(place, index);
}

void draw_codes(const Draw& draw) {
  const bool finite = draw.flag("finite", false);
  DType meaning = draw.dtype;
  const auto named = draw.options.find("of");
  if (named != draw.options.end()) {
    const std::optional<DType> found = parse_dtype(named->second.text());
    if (!found || traits(*found).bits > traits(draw.dtype).bits)
      draw.fail("option 'of': expected a dtype of as many bits or fewer");
    meaning = *found;
  }
  if (is_complex(draw.dtype) || draw.dtype == DType::kBool)
    draw.fail("codes need a dtype that is one number");
  const int bits = traits(meaning).bits;
  const std::uint64_t mask =
      bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  for (std::int64_t i = 0; i < draw.numel; ++i) {
    const ElementRandom random(draw.key, i);
    std::uint64_t code = random.bits(0) & mask;
    // Far fewer than half of the codes are no finite numbers.
    for (std::uint64_t next = random.bits(1);
         finite && is_float(meaning) &&
         !(decode_float(meaning, code) - decode_float(meaning, code) == 0);
         next = next * 0x5851f42d4c957f2d + 1)
      code = next >> (64 - bits) & mask;
    store_code(draw.dtype, code, draw.data, i);
  }
}

void draw_one_hot(const Draw& draw) {
  const std::int64_t columns = draw.columns();
  for (std::int64_t row = 0; row < draw.rows(); ++row)
    draw.put(row * columns + ElementRandom(draw.key, row).below(columns), 1);
}

void draw_routing(const Draw& draw) {
  const std::int64_t experts = draw.columns();
  const std::int64_t topk = draw.integer("topk");
  if (draw.integer("experts", experts) != experts || topk < 0 ||
      topk > experts || draw.shape.size() < 2)
    draw.fail(fmt::format("top {} of {} experts in shape {}", topk,
                          draw.integer("experts", experts),
                          to_string(draw.shape)));
  OrderedRandom random(draw);
  for (std::int64_t row = 0; row < draw.rows(); ++row)
    for (const std::int64_t expert : choose(random, experts, topk))
      draw.put(row * experts + expert, 1);
}

void draw_splits(const Draw& draw) {
  need_vector(draw);
  if (draw.integer("parts", draw.numel) != draw.numel)
    draw.fail(fmt::format("{} parts in shape {}", draw.integer("parts"),
                          to_string(draw.shape)));
  const std::vector<std::int64_t> sizes =
      draw_sizes(draw, draw.numel, draw.flag("empty", true));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    draw.put(static_cast<std::int64_t>(i), sizes[i]);
}

void draw_cu_seqlens(const Draw& draw) {
  need_vector(draw);
  const std::int64_t parts = draw.numel - 1;
  if (parts < 0 || draw.integer("parts", parts) != parts)
    draw.fail(fmt::format("expected one element more than parts, found {}",
                          to_string(draw.shape)));
  const std::vector<std::int64_t> sizes =
      draw_sizes(draw, parts, draw.flag("empty", false));
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    draw.put(static_cast<std::int64_t>(i) + 1, sum += sizes[i]);
}

}  // namespace assay::conform
