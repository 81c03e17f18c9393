#include "assay/te/fusible/sequential.h"

#include <gtest/gtest.h>
