// SPDX-License-Identifier: Apache-2.0
// A small capture, written line by line, and a source over a text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "capture/capture.h"

namespace plimsoll::capture {

// Two gradients that autograd sums: storage 1 is a parameter, 2 and 3 are gradients of it, 4 is their sum.
inline std::string small_capture(std::string_view engine = "1") {
  const std::string lines = std::string(R"([3,0]
[0,1,2,[],[[1,3,[256,4],[4,1]]],[],0]
[1,1,4096]
[3,4]
[0,1,2,[],[[2,3,[256,4],[4,1]]],[],)") +
                            std::string(engine) + R"(]
[1,2,4096]
[0,1,2,[],[[3,3,[256,4],[4,1]]],[],)" +
                            std::string(engine) +
                            R"(]
[1,3,4096]
[0,5,2,[[2,3,[256,4],[4,1]],[3,3,[256,4],[4,1]]],[[4,3,[256,4],[4,1]]],[1.5],)" +
                            std::string(engine) + R"(]
[1,4,4096]
[2,2]
[2,3]
[2,4]
[3,6]
)";
  return R"({"schema":"plimsoll-capture-1","torch":"2.6.0","capability":90,"sizes":{"batch":2,"seq":8},"names":["model","aten.empty.memory_format","net.0","float32","backward","aten.add.Tensor","end"],"assumed":{},"parameters":[[1,"w"]],"buffers":[],"events":14})"
         "\n" +
         lines;
}

inline Result<Capture> read_text(std::string_view text) {
  const std::unique_ptr<snapshot::Source> source = snapshot::memory_source(text);
  return read_capture(*source);
}

inline std::string data_file(const std::string& name) {
  return std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/captures/" + name;
}

}  // namespace plimsoll::capture
