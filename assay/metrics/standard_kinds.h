// One factory per kind of standard; standard.cpp picks it by the key `kind`.
#pragma once

#include <memory>

#include "assay/metrics/config_node.h"
#include "assay/metrics/standard.h"

namespace assay {

using StandardPtr = std::shared_ptr<const Standard>;

// layered: element bound by class and dtype, then whole-tensor figures.
StandardPtr make_layered(const ConfigNode& node);
// tolerance: |d| against atol and rtol, for a share of the elements.
StandardPtr make_tolerance(const ConfigNode& node);
// relative: mean and max relative error (MERE, MARE).
StandardPtr make_relative(const ConfigNode& node);
// ratio: error figures over those of a baseline device.
StandardPtr make_ratio(const ConfigNode& node);
// cosine: cosine and max abs error ("Accuracy Reached").
StandardPtr make_cosine(const ConfigNode& node);
// msprobe: the Result column of msprobe 26.x.
StandardPtr make_msprobe(const ConfigNode& node);
// exact: every value equal, zeros with their sign.
StandardPtr make_exact(const ConfigNode& node);

}  // namespace assay
