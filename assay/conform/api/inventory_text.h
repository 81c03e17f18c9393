// An inventory as text for a terminal.
#pragma once

#include <string>

#include "assay/conform/api/inventory.h"

namespace assay::conform {

// Totals and shares of the classes, and what could not be read.
std::string inventory_summary(const Inventory& inventory);

// One line for each API: class, name, uses, files, what guards it.
std::string inventory_table(const Inventory& inventory);

// Files with their uses, and the APIs of each.
std::string inventory_by_file(const Inventory& inventory);

}  // namespace assay::conform
