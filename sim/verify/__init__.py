"""An independent judge of command streams: does every operation see the data that it should?"""
