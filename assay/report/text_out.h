// The buffer appenders under their old name.
#pragma once

#include "assay/base/text_out.h"
