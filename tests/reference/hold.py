"""Held pixels, one after the other."""

from __future__ import annotations

import numpy as np


def is_near(a, b, most):
    if a[3] != b[3]:
        return False
    return a[3] == 0 or sum(w * (int(x) - int(y)) ** 2 for w, x, y in zip((2, 4, 1), a[:3], b[:3], strict=True)) <= most


def rgba(pixel):
    return tuple(pixel) if len(pixel) == 4 else (*(list(pixel) * 3)[:3], 255)


def held(frames, look_ahead, most):
    """(shown, stays) of frames (n, pixels, channels)."""
    shown, stays = np.empty_like(frames), np.zeros(frames.shape[:2], bool)
    for i in range(frames.shape[1]):
        before = None
        for t in range(len(frames)):
            now = frames[t, i]
            stays[t, i] = before is not None and is_near(rgba(before), rgba(now), most)
            if not stays[t, i]:
                run = [now]
                for later in frames[t + 1 : t + 1 + look_ahead, i]:
                    if not is_near(rgba(later), rgba(now), most):
                        break
                    run.append(later)
                median = np.sort(np.stack(run), axis=0)[(len(run) - 1) // 2]
                before = median if is_near(rgba(median), rgba(now), most) else now
            shown[t, i] = before
    return shown, stays
