"""Films of strangers: the bytes of the file named and nothing else, whatever its name or content asks for."""

from __future__ import annotations

import io
import os
import sys
import time

import numpy as np
import pytest

import clquant
from clquant.cli import main
from clquant.runtime import FileError
from tests.video.test_films import film

RED, BLUE = (np.full((16, 16, 3), color, np.uint8) for color in ((255, 0, 0), (0, 0, 255)))
SECONDS = 5  # far above what a refusal takes, far below what following takes


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder, the current one, with a film that nobody named, and a pipe: who opens it waits for ever."""
    (tmp_path / "up").mkdir()
    film(tmp_path / "secret.mkv", [RED] * 3)
    film(tmp_path / "up" / "ok.mkv", [RED] * 3)
    os.mkfifo(tmp_path / "waits.ts")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def playlists(target):
    """Files of formats that name another one."""
    dash = f"""<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"
mediaPresentationDuration="PT1S" profiles="urn:mpeg:dash:profile:isoff-live:2011"><Period><AdaptationSet
mimeType="video/mp4"><Representation id="0" codecs="avc1.4d401e" width="16" height="16" bandwidth="1"><BaseURL>{target}
</BaseURL></Representation></AdaptationSet></Period></MPD>"""
    listed = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{target}\n"
    return {
        "end.m3u8": listed + "#EXT-X-ENDLIST\n",
        "endless.m3u8": listed,
        "key.m3u8": f'#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-KEY:METHOD=AES-128,URI="{target}"\n#EXTINF:1,\na.ts\n',
        "concat.ffconcat": f"ffconcat version 1.0\nfile '{target}'\n",
        "dash.mpd": dash,
        "a.sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=-\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n"
        "a=rtpmap:96 H264/90000\n",
        "a.idx": "# VobSub index file, v7 (do not modify this line!)\nsize: 16x16\nid: en, index: 0\n"
        "timestamp: 00:00:00:000, filepos: 000000000\n",
        "a.asx": f'<asx version="3.0"><entry><ref href="{target}"/></entry></asx>',
        "a.smil": f'<smil><body><video src="{target}"/></body></smil>',
        "a.avs": f'DirectShowSource("{target}")',
        "a.txt": f"[playlist]\nFile1={target}\n",
        "a.rtsptext": f"[Reference]\nRef1={target}\n",
    }


NAMES = sorted(playlists(""))


@pytest.mark.parametrize("name", NAMES)
def test_playlists_are_no_films(name, place, monkeypatch):
    """By their own names, as films, through pipes and as bytes, they end at once and wait for nothing."""
    for target in (place / "secret.mkv", "secret.mkv", place / "waits.ts", place / name, "concat:secret.mkv"):
        data = playlists(target)[name].encode()
        begin = time.monotonic()
        for given in (name, "a.mp4", "a.png", "-", data, io.BytesIO(data)):
            if isinstance(given, str):
                monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
                (place / (name if given == "-" else given)).write_bytes(data)
            with pytest.raises(FileError, match="cannot read "):
                list(clquant.video.frames(given))
        assert main(["animate", "a.mp4", "-o", "a.gif", "-q"]) == 2
        assert time.monotonic() - begin < SECONDS
    assert not (place / "a.gif").exists()


@pytest.mark.parametrize(
    "name",
    ["12:30.mkv", "concat:up/ok.mkv", "a|b.mkv", "-x.mkv", "file:secret.mkv", "fr%d.mkv", "cache:secret.mkv", "[1].mkv",
     "subfile,,start,0,end,9,,:secret.mkv", "data:video.mkv", "udp:", "pipe:0", "lavfi", "http:secret.mkv"],
)  # fmt: skip
def test_names_are_names(name, place):
    """A film is read whatever its name is, and no other is read instead."""
    os.makedirs(os.path.dirname(place / name) or ".", exist_ok=True)
    film(place / "blue.mkv", [BLUE] * 2)
    os.rename(place / "blue.mkv", place / name)
    found = [frame.pixels for frame in clquant.video.frames(name)]
    assert np.array_equal(found, [BLUE] * 2)
    assert main(["animate", "-q", "-o", "a.gif", "--", name]) == 0
    assert all(np.array_equal(frame.pixels[:, :, :3], BLUE) for frame in clquant.video.frames("a.gif"))
    os.unlink(place / name)
    with pytest.raises(FileError, match="there is no such file"):
        clquant.video.frames(name)


@pytest.mark.parametrize("name", ["fr%d.png", "fr%03d.jpg", "fr*.png"])
def test_patterns_are_names(name, place):
    """A picture that is broken is not read as the pattern of others."""
    for number in range(3):
        clquant.quantize(RED, 2).save(place / f"fr{number}.png")
    (place / name).write_bytes(b"\x89PNG broken")
    with pytest.raises(FileError, match="cannot read "):
        list(clquant.video.frames(name))


def test_references_of_a_mov_are_not_followed(place):
    """A track whose data lie in another file by its own reference has no frames."""
    (place / "ref.mov").write_bytes(film(place / "a.mov", [BLUE] * 3, codec="png", format="rgb24").read_bytes())
    data = (place / "ref.mov").read_bytes()
    own = data.index(b"url \x00\x00\x00\x01") - 4
    path = os.fsencode(place / "waits.ts")
    path += b"\0" * (len(path) % 2)
    levels = b"\0\1\0\1"  # up from here and down again: the path may be relative, too
    alias = bytes(130) + levels + bytes(16) + b"\0\2" + len(path).to_bytes(2, "big") + path + b"\xff\xff\0\0"
    entry = (12 + len(alias)).to_bytes(4, "big") + b"alis" + bytes(4) + alias
    changed = bytearray(data[:own] + entry + data[own + 12 :])
    for kind in (b"moov", b"trak", b"mdia", b"minf", b"dinf", b"dref"):
        at = changed.rindex(kind, 0, own) - 4
        size = int.from_bytes(changed[at : at + 4], "big") + len(entry) - 12
        changed[at : at + 4] = size.to_bytes(4, "big")
    (place / "ref.mov").write_bytes(changed)
    begin = time.monotonic()
    with pytest.raises(FileError, match="its video stream has no frames"):
        list(clquant.video.frames("ref.mov"))
    assert time.monotonic() - begin < SECONDS


@pytest.mark.parametrize(("box", "place_of_count", "muxer"), [
    ("stsz", 12, {}), ("stz2", 12, {}), ("trun", 8, {"movflags": "frag_keyframe+empty_moov"})])  # fmt: skip
def test_movs_that_claim_more_frames_than_bytes(box, place_of_count, muxer, place, monkeypatch):
    """FFmpeg would make gigabytes of a claim; wherever the box lies, and through pipes."""
    whole = film(place / "a.mp4", [BLUE] * 3, codec="mpeg4", format="yuv420p", muxer=muxer).read_bytes()
    at = whole.index(b"trun" if muxer else b"stsz")
    for claim, why in ((10**7, "it claims [0-9]+ frames in [0-9]+ bytes; allowed: one a byte"), (3, None)):
        data = bytearray(whole)
        data[at : at + 4] = box.encode()
        data[at + place_of_count : at + place_of_count + 4] = claim.to_bytes(4, "big")
        if why is None and box != "stz2":
            assert len(list(clquant.video.frames(bytes(data)))) == 3
            continue
        (place / "b.mp4").write_bytes(data)
        for given in ("b.mp4", bytes(data), "-"):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            with pytest.raises(FileError, match=why):
                list(clquant.video.frames(given))


def test_packed_heads_are_refused(place):
    data = film(place / "a.mov", [BLUE] * 3, codec="mpeg4", format="yuv420p").read_bytes()
    with pytest.raises(FileError, match=r"its head is packed \(cmov\)"):
        clquant.video.frames(data.replace(b"udta", b"cmov").replace(b"mvhd", b"cmov"))


def test_mp4_through_a_pipe_may_have_its_head_last(place, monkeypatch):
    data = film(place / "a.mp4", [BLUE] * 3, codec="mpeg4", format="yuv420p").read_bytes()
    assert data.index(b"moov") > data.index(b"mdat")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert len(list(clquant.video.frames("-"))) == 3


def test_named_pipes_are_films(place):
    """One is read once and in order, an animated file as the film that it is."""
    clquant.save_animation(place / "a.gif", [clquant.quantize(color, 2) for color in (RED, BLUE)], delay_ms=40)
    for name, colors in (("secret.mkv", [RED] * 3), ("a.gif", [RED, BLUE])):
        into, out = os.pipe()
        os.write(out, (place / name).read_bytes())
        os.close(out)
        found = [frame.pixels for frame in clquant.video.frames(f"/dev/fd/{into}")]
        os.close(into)
        assert np.array_equal(np.asarray(found)[..., :3], colors)
    data = (place / "secret.mkv").read_bytes()
    for given in (data, bytearray(data), io.BytesIO(data)):
        assert np.array_equal([frame.pixels for frame in clquant.video.frames(given)], [RED] * 3)
