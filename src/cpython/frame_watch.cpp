#include "cpython/frame_watch.h"

namespace evalframe::cpython {

namespace {

// It decides nothing: frames come by the slot because it is there.
class Onlooker final : public FrameHook {
 public:
  Decision on_frame(PyThreadState*, EntryFrame, Ref&) override { return Decision::kPass; }
};

}  // namespace

// Where no hook can be installed, code may have run.
FrameWatch::FrameWatch() : id_(install_frame_hook(std::make_shared<Onlooker>())), before_(frames_met()) {
  if (!id_) PyErr_Clear();
}

FrameWatch::~FrameWatch() {
  if (id_) remove_frame_hook(id_);
}

}  // namespace evalframe::cpython
